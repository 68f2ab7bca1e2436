"""What the egress proxy is made of: rules, accounts, resolving, sockets."""
