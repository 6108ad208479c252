-- Query 23: bids with their bidder and with all that the bidder sells. All rows stay in the state.
SELECT
  b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, p.name, p.emailAddress, p.city, p.state,
  a.id, a.itemName, a.category, a.dateTime AS auction_dateTime
FROM bid AS b
JOIN person AS p ON b.bidder = p.id
JOIN auction AS a ON a.seller = b.bidder
