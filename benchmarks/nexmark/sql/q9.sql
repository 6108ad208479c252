-- The join of query 9: auctions with the bids while they are open, all columns. Above it, the published query keeps
-- the highest bid of each auction by ROW_NUMBER, which Spark's streams reject.
-- Spark 4.2 evicts an auction when the watermark passes its beginning, so rows are lost if auctions live long.
SELECT a.*, b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra
FROM auction AS a
JOIN bid AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
