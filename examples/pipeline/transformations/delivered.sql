-- Two tables of files, and the join of their streams.
CREATE MATERIALIZED VIEW orders AS
SELECT CAST(_c0 AS INT) AS id, CAST(_c1 AS TIMESTAMP) AS time FROM csv.`../data/orders`;

CREATE MATERIALIZED VIEW deliveries AS
SELECT CAST(_c0 AS INT) AS id, CAST(_c1 AS TIMESTAMP) AS time FROM csv.`../data/deliveries`;

CREATE STREAMING TABLE delivered AS
SELECT o.id, o.time AS ordered, d.time AS delivered
FROM STREAM orders WATERMARK time DELAY OF INTERVAL 10 MINUTES AS o
JOIN STREAM deliveries WATERMARK time DELAY OF INTERVAL 10 MINUTES AS d
  WITHIN BETWEEN 0s AND 1h
  ON o.id = d.id;
