"""Features of one domain: pure functions of what was measured for the profiles that weigh them."""
