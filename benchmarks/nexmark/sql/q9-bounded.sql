-- The join of query 9: auctions with the bids while they are open, and the longest time that one is open.
SELECT a.*, b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra
FROM auction AS a
JOIN bid AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  AND b.dateTime <= a.dateTime + INTERVAL ${lifetime} MILLISECONDS -- every row fulfills this
