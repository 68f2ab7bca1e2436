"""Forty questions, written before any was asked: does the passage that answers stand among the first three?"""
