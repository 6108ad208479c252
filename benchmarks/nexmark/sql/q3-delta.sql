-- Query 3 as a delta join: both are arrangements, and the query keeps nothing.
SELECT p.name, p.city, p.state, a.id
FROM STREAM auctions AS a
JOIN STREAM persons AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
