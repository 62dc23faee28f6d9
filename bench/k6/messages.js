// The scenarios' requests and what their replies have to be, by number.

import { XML, ask, envelope } from './common.js';

const PLAIN = 'text/xml;charset=utf-8';
const ADD = envelope('Add', 5, 7);
const ACTION = 'http://tempuri.org/Add';

// The document of scenario 10, which comes back byte for byte.
export const COMPANY = `<?xml version="1.0" encoding="UTF-8"?>
<root>
   <companyName>KongHQ</companyName>
   <city>SAN FRANCISCO</city>
   <state>CA</state>
   <country>USA</country>
   <offices>
      <site>San Francisco (HQ)</site>
      <site>Chicago</site>
      <site>London</site>
      <site>Bangalore</site>
      <site>Singapore</site>
   </offices>
   <products/>
</root>`;

// Where a scenario is asked.
export const place = (scenario) => (scenario === 'typed' ? '/typed/Add' : `/scen${scenario}`);

const JSON_HEADERS = { 'Content-Type': 'application/json' };

function soap(path, body, holds, more) {
  const wanted = Object.assign({ type: PLAIN, holds }, more);
  const headers = { 'Content-Type': XML };
  if (wanted.action) headers.SOAPAction = wanted.action;
  return ask(path, body, headers, wanted);
}

export const calls = {
  0: (path) => soap(path, ADD, '<AddResult>12</AddResult>'),
  1: (path) => soap(path, ADD, '<AddResult>12</AddResult>'),
  2: (path) => soap(path, ADD, '<AddResult>12</AddResult>', { action: ACTION }),
  3: (path) => soap(path, ADD, '<AddResult>12</AddResult>'),
  4: (path) => soap(path, envelope('Subtract', 5, 7), '<AddResult>12</AddResult>'),
  5: (path) => soap(path, envelope('Subtract', 5, 0), '<KongResult>15</KongResult>', { action: ACTION, region: 'soap2' }),
  6: (path) => soap(path, ADD, '<AddResult>12</AddResult>'),
  7: (path) => soap(path, ADD, '<KongResult>12</KongResult>'),
  8: (path) => soap(path, envelope('Subtract', 5, 7), '<AddResult>12</AddResult>'),
  9: (path) =>
    ask(path, '{"operation":"Add","intA":50,"intB":10}', JSON_HEADERS, {
      type: 'application/json',
      body: '{"result":60}',
    }),
  10: (path) => ask(path, COMPANY, { 'Content-Type': XML }, { type: XML, holds: COMPANY }),
  typed: (path) =>
    ask(path, '{"intA":5,"intB":7}', JSON_HEADERS, { type: 'application/json', body: '{"AddResult":12}' }),
};

// Endurance 5 keeps intB and puts a second one behind it.
export const lasting = {
  5: (path) =>
    soap(path, envelope('Subtract', 5, 0), '<AddResponse><KongResult>18</KongResult></AddResponse>', {
      action: ACTION,
      region: 'soap2',
    }),
  9: calls[9],
  10: calls[10],
};
