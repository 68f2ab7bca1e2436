"""`sluice memory`: what an agent remembers of a feature, in a folder of the project or in the instance."""
