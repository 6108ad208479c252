-- Query 8: the persons who sell something in the ten seconds in which they are new.
SELECT p.id, p.name, p.window.start AS starttime
FROM (SELECT id, name, window FROM person GROUP BY id, name, window(dateTime, '10 seconds')) AS p
JOIN (SELECT seller, window FROM auction GROUP BY seller, window(dateTime, '10 seconds')) AS a
  ON p.id = a.seller AND p.window = a.window
