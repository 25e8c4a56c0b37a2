"""Stores keep records. They know kinds, columns and locks; they know no rule."""
