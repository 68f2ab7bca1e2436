"""Commands of operators: runs, dead letters, hosts, snapshots, quarantine."""
