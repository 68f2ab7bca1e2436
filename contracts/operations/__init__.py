"""Values for operators: dead letters, quarantine, forgetting."""
