-- Values of a column at the given ranks.
SELECT $quantiles AS points
FROM split
WHERE served
