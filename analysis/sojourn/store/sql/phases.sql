-- How many of the ten last digits there are among an instant's multiples of a tick (us): sojourn.analyses.audit.analysis.
SELECT uniqExact(intDiv($instant, {tick:Int64}) % 10) AS phases
FROM split
WHERE served
