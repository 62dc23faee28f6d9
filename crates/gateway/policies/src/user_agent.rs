//! `user_agent`: refuses programs by the name in their `User-Agent`. The name proves nothing: a client can send any text.

use fault::{Fault, Kind};
use message::RequestHead;
use policy::{Exchange, Flow, OnHead, Onward, Policy, Step};
use regex::bytes::{RegexSet, RegexSetBuilder};

/// The rules, in the order in which they apply: `allow` lets a program pass, `deny` refuses it, and robots pass only if `robots` is true.
#[derive(Debug, Clone)]
pub struct UserAgents {
    pub allow: RegexSet,
    pub deny: RegexSet,
    pub robots: bool,
}

/// The bound on the memory of one compiled list.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The names of robots: words that many of them use, and well-known robots whose names have none of these words. Phones of the brand Cubot
/// are not robots.
const ROBOTS: [&str; 4] = [
    r"(?i)(?:^|[^u])bot(?:[^a-z]|$)",
    r"(?i)crawl|spider|scrap(?:er|y|ing)|archiver|indexer|slurp",
    r"(?i)facebookexternalhit|mediapartners-google|bingpreview|pingdom|ia_archiver|nutch|heritrix|feedfetcher",
    r"(?i)^(?:python-urllib|apache-httpclient|google-http-java-client|winhttp)",
];

/// Compiles a list of expressions into one set. The error is the index of the first invalid expression, with the reason.
pub fn expressions(texts: &[&str]) -> Result<RegexSet, (usize, String)> {
    let build = |texts: &[&str]| {
        let mut builder = RegexSetBuilder::new(texts);
        builder.unicode(false).size_limit(COMPILED_BYTES_MAX).build()
    };
    for (at, text) in texts.iter().enumerate() {
        build(&[text]).map_err(|error| (at, kit::regex_error::reason(&error)))?;
    }
    build(texts).map_err(|_| (0, "all expressions together are too large".to_owned()))
}

/// Returns the policy, or `None` if [`ROBOTS`] cannot be compiled, which the tests below exclude.
pub fn policy(agents: UserAgents) -> Option<Policy> {
    let robots = expressions(&ROBOTS).ok()?;
    let check = AgentCheck { agents, robots };
    Some(Policy { name: "user_agent", request: Some(Step::Head(Box::new(check))), response: None })
}

struct AgentCheck {
    agents: UserAgents,
    robots: RegexSet,
}

impl OnHead<RequestHead> for AgentCheck {
    fn on_head(&self, _ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let mut lines = head.headers.get_all("user-agent");
        let Some(agent) = lines.next().map(<[u8]>::trim_ascii) else { return Ok(Onward::Next) };
        if lines.next().is_some() {
            let fault = Fault::new(Kind::Refused, "user_agent: the header occurs twice");
            return Err(fault.with_status(400));
        }
        match self.refused(agent) {
            None => Ok(Onward::Next),
            Some(why) => {
                let shown = agent.get(..SHOWN_MAX).unwrap_or(agent);
                let cause = format!("user_agent: {why}: {}", shown.escape_ascii());
                Err(Fault::new(Kind::Refused, cause))
            }
        }
    }
}

/// The number of bytes of a `User-Agent` that the log shows.
const SHOWN_MAX: usize = 128;

impl AgentCheck {
    fn refused(&self, agent: &[u8]) -> Option<&'static str> {
        if self.agents.allow.is_match(agent) {
            None
        } else if self.agents.deny.is_match(agent) {
            Some("it matches `deny`")
        } else if !self.agents.robots && self.robots.is_match(agent) {
            Some("it is a robot")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn robots_are_known_by_their_names() {
        let check = |allow: &[&str], deny: &[&str], robots| AgentCheck {
            agents: UserAgents {
                allow: expressions(allow).unwrap(),
                deny: expressions(deny).unwrap(),
                robots,
            },
            robots: expressions(&ROBOTS).unwrap(),
        };
        let usual = check(&[], &[], false);
        for (agent, is_refused) in [
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", true),
            ("facebookexternalhit/1.1", true),
            ("Mozilla/5.0 (compatible; Yahoo! Slurp)", true),
            ("Scrapy/2.11 (+https://scrapy.org)", true),
            ("MyCrawler", true),
            ("some bot", true),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", false),
            ("Mozilla/5.0 (Linux; Android 9; CUBOT_X19) AppleWebKit/537.36", false),
            ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/120.0 Safari/537.36", false),
            ("curl/8.5.0", false),
            ("bottle/1.0", false),
            ("", false),
        ] {
            assert_eq!(usual.refused(agent.as_bytes()).is_some(), is_refused, "{agent}");
        }
        let listed = check(&["^Googlebot"], &["curl", "bot"], true);
        for (agent, is_refused) in
            [("Googlebot/2.1", false), ("bingbot/2.0", true), ("curl/8", true), ("Scrapy/2", false)]
        {
            assert_eq!(listed.refused(agent.as_bytes()).is_some(), is_refused, "{agent}");
        }
        assert_eq!(expressions(&["a", "("]).unwrap_err().0, 1);
        assert!(expressions(&["a{1000}"; 1_000]).is_err(), "a list has a bound");
    }
}
