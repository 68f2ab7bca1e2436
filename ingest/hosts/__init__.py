"""What is learned and counted of hosts."""
