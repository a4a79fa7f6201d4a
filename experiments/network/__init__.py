"""The parts of the job network_fisher."""
