"""Adversaries that come with the product, written against the same interface as everyone's."""
