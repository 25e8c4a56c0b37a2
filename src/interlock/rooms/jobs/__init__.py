"""Jobs: proposed actions, from submit to done."""
