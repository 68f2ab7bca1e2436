"""The folder of a corpus: its layout, its locks, and writes that survive a power cut."""
