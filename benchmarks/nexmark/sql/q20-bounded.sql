-- Query 20 with how much earlier or later than its auction a bid can be, by the rules of the generator.
SELECT
  b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bid_dateTime, b.extra AS bid_extra,
  a.itemName, a.description, a.initialBid, a.reserve, a.dateTime AS auction_dateTime, a.expires, a.seller, a.category,
  a.extra AS auction_extra
FROM bid AS b
JOIN auction AS a ON b.auction = a.id
  AND b.dateTime >= a.dateTime - INTERVAL ${lead} MILLISECONDS
  AND b.dateTime <= a.dateTime + INTERVAL ${reach} MILLISECONDS
WHERE a.category = 10
