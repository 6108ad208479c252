SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS highest, time_bucket(INTERVAL 10 SECONDS, dateTime) + INTERVAL 10 SECONDS AS last
  FROM bid GROUP BY last
) AS m
  ON b.price = m.highest AND b.dateTime BETWEEN m.last - INTERVAL 10 SECONDS AND m.last
