"""Events: written in the transaction that caused them, and then delivered."""
