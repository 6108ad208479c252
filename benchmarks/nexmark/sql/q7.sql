-- Query 7: the bids with the highest price of their ten seconds.
SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
FROM bid AS b
JOIN (SELECT max(price) AS highest, window FROM bid GROUP BY window(dateTime, '10 seconds')) AS m
  ON b.price = m.highest AND b.dateTime BETWEEN m.window.end - INTERVAL 10 SECONDS AND m.window.end
