"""Fitting a learned gate on recorded runs and collections, and measuring it on what it has not seen."""
