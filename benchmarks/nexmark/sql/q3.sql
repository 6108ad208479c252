-- Query 3: who sells in some states, and what. No column is bounded by another, so all rows stay in the state.
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
