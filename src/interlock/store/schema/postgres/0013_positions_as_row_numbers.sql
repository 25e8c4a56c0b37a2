-- Nothing to do: here rows have no numbers of their own, and positions are given after the commit (decision 0020).
SELECT 1;
