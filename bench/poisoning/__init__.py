"""Texts made for a question among thousands of honest ones, and honest texts that are alike: which are marked?"""
