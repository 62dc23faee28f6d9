-- Writes applications with keys and subscriptions into the tables of the catalog: 1,100,000 requests would take too long.
-- The test replaces the words in capitals: APPLICATIONS by the number of applications, EACH by the number of subscriptions of each
-- application, to the first ones of the list APIS, and HASH by the hash of the secret, which all applications have.
with numbers as (
  select n, md5('application ' || n)::uuid::text as id, md5('key ' || n) as consumer_key from generate_series(1, APPLICATIONS) n
), written as (
  select
    'application/' || id as key,
    json_build_object(
      'id', id, 'name', 'application ' || n, 'owner', 'admin', 'plan', 'Unlimited', 'description', '', 'attributes', json_build_object(),
      'keys', json_build_array(json_build_object(
        'id', md5('mapping ' || n)::uuid::text, 'kind', 'PRODUCTION', 'consumer_key', consumer_key, 'secret_hash', 'HASH',
        'grants', json_build_array('client_credentials'), 'callback', '', 'scopes', json_build_array(), 'lifetime', null)),
      'created', 1790000000000, 'updated', 1790000000000)::text as value
  from numbers
  union all
  select 'name/application/' || encode(sha256(convert_to('admin application ' || n, 'UTF8')), 'hex'), id from numbers
)
insert into tidegate.rows (name, key, version, value)
select 'catalog', convert_to(key, 'UTF8'), (select version from tidegate.head), convert_to(value::text, 'UTF8') from written;

with pairs as (
  select md5('application ' || n)::uuid::text as application, api.id as api, md5('subscription ' || n || ' ' || api.at)::uuid::text as id
  from generate_series(1, APPLICATIONS) n cross join unnest(array[APIS]) with ordinality as api (id, at)
  where api.at <= EACH
), written as (
  select
    'subscription/' || id as key,
    json_build_object('id', id, 'api', api, 'application', application, 'plan', 'Gold', 'state', 'UNBLOCKED', 'created', 1790000000000)::text as value
  from pairs
  union all
  select 'name/subscription/' || encode(sha256(convert_to(application || ' ' || api, 'UTF8')), 'hex'), id from pairs
)
insert into tidegate.rows (name, key, version, value)
select 'catalog', convert_to(key, 'UTF8'), (select version from tidegate.head), convert_to(value, 'UTF8') from written;
