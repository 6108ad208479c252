-- Query 13: bids with a value from a file. It is read again in each batch, and a change of it needs a restart.
SELECT b.auction, b.bidder, b.price, b.dateTime, s.value
FROM bid AS b
JOIN side AS s ON b.auction % 10000 = s.key
