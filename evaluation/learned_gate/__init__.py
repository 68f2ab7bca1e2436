"""What is known of a learned gate: its files, its measures, its errors at a cost."""
