-- Query 23 as a chain, with how much earlier or later than the person a bid or an auction can be, by the rules of the
-- generator: any of the last 1,000 persons may bid and sell.
SELECT
  b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, p.name, p.emailAddress, p.city, p.state,
  a.id, a.itemName, a.category, a.dateTime AS auction_dateTime
FROM bid AS b
JOIN person AS p ON b.bidder = p.id
  AND b.dateTime >= p.dateTime - INTERVAL ${lead} MILLISECONDS
  AND b.dateTime <= p.dateTime + INTERVAL ${active} MILLISECONDS
JOIN auction AS a ON a.seller = b.bidder
  AND a.dateTime >= p.dateTime - INTERVAL ${lead} MILLISECONDS
  AND a.dateTime <= p.dateTime + INTERVAL ${active} MILLISECONDS
