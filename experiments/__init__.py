"""Configs, data, models, fine-tuning and the experiments themselves."""
