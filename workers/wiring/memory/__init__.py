"""The memory of agents as an instance has it: journals by project, and how the index stands to them."""
