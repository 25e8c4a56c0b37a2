"""Programs that measure other systems on their own terms, each run by an interpreter that has them installed."""
