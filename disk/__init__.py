"""Files that survive a power cut and other processes: durable writes, pointers, locks, JSON lines; and locked children.

It imports nothing of Sluice but `contracts.errors`. Every package may use it.
"""
