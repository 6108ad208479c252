-- The join of query 4: bids while their auction is open. Above it, the published query has the highest price of each
-- auction and their average in each category, a nested aggregation that Spark's streams reject.
-- Spark 4.2 evicts an auction when the watermark passes its beginning, so rows are lost if auctions live long.
SELECT a.id, a.category, b.dateTime, b.price
FROM auction AS a
JOIN bid AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
