-- Every decision writes events, and every index of theirs is paid for with it. Nothing looks for events by
-- subject.
DROP INDEX events_by_subject;
