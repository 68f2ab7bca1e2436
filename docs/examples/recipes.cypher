// Who uses a symbol
MATCH (d:Document)-[r:REFERS_TO]->(s:Symbol {id: $symbol})
RETURN d.path, r.lines, r.origin
ORDER BY d.path

// Where a name is defined
MATCH (s:Symbol {name: $name})-[r:DEFINED_IN]->(d:Document)
RETURN s.id, r.detail AS kind, d.path, r.line
ORDER BY s.id

// What the tests of a module's definitions are
MATCH (s:Symbol)-[:DEFINED_IN]->(:Document {path: $path})
MATCH (test:Document)-[:REFERS_TO]->(s)
WHERE test.path STARTS WITH 'tests/'
RETURN test.path, collect(DISTINCT s.name) AS touched

// Documents about the code that a test touches
MATCH (test:Document {path: $test})-[:REFERS_TO]->(s:Symbol)<-[:REFERS_TO]-(doc:Document)
WHERE doc.path STARTS WITH 'docs/'
RETURN doc.path, count(DISTINCT s) AS shared
ORDER BY shared DESC

// What breaks when a file changes, two steps away
MATCH (changed:Document {path: $path})<-[:DEFINED_IN]-(s:Symbol)<-[:REFERS_TO]-(near:Document)
OPTIONAL MATCH (near)<-[:DEFINED_IN]-(:Symbol)<-[:REFERS_TO]-(far:Document)
WHERE far.path <> $path
RETURN near.path, collect(DISTINCT far.path) AS further
ORDER BY near.path

// Links that lead out of the corpus
MATCH (d:Document)-[r:LINKS_TO]->(u:URL)
WHERE NOT (u)-[:RESOLVES_TO]->(:Document)
RETURN d.path, u.url, r.detail AS text

// Documents that nothing points at and that point at nothing
MATCH (d:Document)
WHERE NOT (d)-[:REFERS_TO]->(:Symbol) AND NOT (d)-[:LINKS_TO]->(:URL) AND NOT (d)<-[:DEFINED_IN]-()
RETURN d.path

// Names that many definitions answer to
MATCH (d:Document)-[r:REFERS_TO]->(s:Symbol)
WHERE r.origin = 'name'
RETURN s.id, r.candidates, count(d) AS documents
ORDER BY r.candidates DESC, documents DESC
LIMIT 20

// The classes above a class
MATCH p = (c:Symbol {id: $symbol})-[:INHERITS*1..5]->(base:Symbol)
RETURN base.id, length(p) AS steps
ORDER BY steps

// What an answer was made from
MATCH (d:Document)-[:CITED_BY]->(c:Conversation)
RETURN c.id, collect(d.path) AS sources

// Tools of servers, and where they are listed
MATCH (t:Tool)-[:DEFINED_IN]->(d:Document)
RETURN t.server, t.name, d.path
ORDER BY t.server, t.name

// How one document leads to another
MATCH p = (a:Document {path: $from})-[:REFERS_TO|DEFINED_IN|LINKS_TO|RESOLVES_TO*1..3]-(b:Document {path: $to})
RETURN length(p) AS steps, nodes(p) AS nodes, relationships(p) AS edges
ORDER BY steps
LIMIT 3
