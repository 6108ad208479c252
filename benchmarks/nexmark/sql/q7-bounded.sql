-- Query 7 with the time of the window in place of its end, which is a microsecond later.
SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
FROM bid AS b
JOIN (
  SELECT highest, window_time(window) AS last
  FROM (SELECT max(price) AS highest, window FROM bid GROUP BY window(dateTime, '10 seconds'))
) AS m
  ON b.price = m.highest
  AND b.dateTime >= m.last - INTERVAL '9.999999' SECONDS AND b.dateTime <= m.last + INTERVAL '0.000001' SECONDS
