"""The rule book: one package per noun. A room may use only the rooms before it in `store/catalogue.py`."""
