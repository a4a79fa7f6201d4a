"""Binary tasks over fixed prompts whose answers are said in different words."""
