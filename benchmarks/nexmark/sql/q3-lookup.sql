-- Query 3 as a look-up: persons are an arrangement. An auction whose seller is not there yet waits for it for as long
-- as one can be earlier than its seller, a batch and the delay of the watermark included.
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
LEFT JOIN persons WITH (rematch = '${rematch} milliseconds') AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
