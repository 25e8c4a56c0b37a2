"""The rule book: one package a noun, and a room uses those above it in `store/catalogue.py` alone."""
