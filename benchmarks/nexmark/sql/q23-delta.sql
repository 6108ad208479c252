-- Query 23 as a delta join of three arrangements: the query keeps nothing.
SELECT
  b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, p.name, p.emailAddress, p.city, p.state,
  a.id, a.itemName, a.category, a.dateTime AS auction_dateTime
FROM STREAM bids AS b
JOIN STREAM persons AS p ON b.bidder = p.id
JOIN STREAM auctions AS a ON a.seller = b.bidder
