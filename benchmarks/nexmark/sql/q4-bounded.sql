-- The join of query 4: bids while their auction is open, and the longest time that one is open.
SELECT a.id, a.category, b.dateTime, b.price
FROM auction AS a
JOIN bid AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  AND b.dateTime <= a.dateTime + INTERVAL ${lifetime} MILLISECONDS -- every row fulfills this
