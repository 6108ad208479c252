-- Query 13 with the side input as an arrangement, whose changes are seen by the next batch.
SELECT b.auction, b.bidder, b.price, b.dateTime, s.value
FROM bid AS b
JOIN sides AS s ON b.auction % 10000 = s.key
