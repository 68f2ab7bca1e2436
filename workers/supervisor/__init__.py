"""`sluice up`: starts every process of an instance, watches and stops them."""
