//! Converts particles to positions: every place in a content model where a child can match, with the positions that may follow it.
//!
//! This is Glushkov's construction, except that lists of first positions are shared instead of copied, and that particles are counted where
//! expanding them would take too long. The number of positions is limited.

use super::Op;
use crate::arena::Id;
use crate::model::{Components, Element, Max, ModelKind, Particle, Term, Wildcard};

/// A position of the content model, which matches one child.
#[derive(Debug, Clone)]
pub(super) struct Position {
    pub(super) leaf: Leaf,
    /// Number of the particle, equal for all copies of an expanded particle.
    pub(super) source: u32,
    /// Lists of positions that may follow, each with the operations on the way.
    pub(super) follow: Vec<(ListId, Vec<Op>)>,
    /// The operations after which the content may end here, or `None` if it may not.
    pub(super) ends: Option<Vec<Op>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    Element(Id<Element>),
    Wildcard(Id<Wildcard>),
}

/// A list of the positions that may come first in a part of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ListId(pub(super) u32);

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) positions: Vec<u32>,
    pub(super) lists: Vec<(ListId, Vec<Op>)>,
}

/// The positions of one content model.
pub(super) struct Positions<'c> {
    all: &'c Components,
    pub(super) positions: Vec<Position>,
    pub(super) lists: Vec<List>,
    pub(super) counters: u32,
    /// Counters of particles that may be left after their first occurrence.
    pub(super) free: Vec<u32>,
    pub(super) start: ListId,
    pub(super) empty: bool,
    sources: u32,
    /// Maximum number of copies of an expanded particle. With more, the particle is counted.
    written_max: u64,
    positions_max: usize,
    steps: usize,
}

/// The number of positions exceeds the limit.
#[derive(Debug)]
pub(super) struct TooMany;

/// A number of children that no document reaches, because the parser limits the number of tokens.
const UNREACHED: u64 = 1 << 31;

/// The positions of a part of the model.
struct Fragment {
    nullable: bool,
    first: ListId,
    last: Vec<(u32, Vec<Op>)>,
}

impl<'c> Positions<'c> {
    /// Builds the positions of a content model. Particles with up to `written_max` occurrences are expanded.
    pub(super) fn of(
        all: &'c Components,
        particle: Id<Particle>,
        written_max: u64,
        positions_max: usize,
    ) -> Result<Positions<'c>, TooMany> {
        let mut made = Positions {
            all,
            positions: Vec::new(),
            lists: Vec::new(),
            counters: 0,
            free: Vec::new(),
            start: ListId(0),
            empty: false,
            sources: 0,
            written_max,
            positions_max,
            steps: positions_max.saturating_mul(8),
        };
        let whole = made.particle(particle)?;
        made.start = whole.first;
        made.empty = whole.nullable;
        for (position, ops) in whole.last {
            if let Some(position) = made.positions.get_mut(position as usize) {
                position.ends = Some(ops);
            }
        }
        Ok(made)
    }

    fn list(&mut self, list: List) -> ListId {
        self.lists.push(list);
        ListId(u32::try_from(self.lists.len() - 1).unwrap_or(u32::MAX))
    }

    fn nothing(&mut self, nullable: bool) -> Fragment {
        let first = self.list(List::default());
        Fragment { nullable, first, last: Vec::new() }
    }

    fn particle(&mut self, id: Id<Particle>) -> Result<Fragment, TooMany> {
        // Shared groups that are empty add no position, but the limit on steps bounds them too.
        self.steps = self.steps.checked_sub(1).ok_or(TooMany)?;
        let particle = self.merged(self.all.particles[id]);
        match (particle.min, particle.max) {
            (_, Max::Times(0)) => Ok(self.nothing(true)),
            (1, Max::Times(1)) => self.once(particle.term),
            (0, Max::Times(1)) => {
                let mut inner = self.once(particle.term)?;
                inner.nullable = true;
                Ok(inner)
            }
            (min @ (0 | 1), Max::Unbounded) => {
                let mut inner = self.once(particle.term)?;
                self.connect(&inner.last, inner.first, &[]);
                inner.nullable |= min == 0;
                Ok(inner)
            }
            (min, max) => {
                let copies = match max {
                    Max::Times(max) => max,
                    Max::Unbounded => min,
                };
                if copies <= self.written_max {
                    self.written(particle.term, min, max, copies)
                } else {
                    self.counted(particle.term, min, max)
                }
            }
        }
    }

    /// Simplifies a particle: merges groups around a single particle if one range of occurrences can express both, and clamps bounds that
    /// no document reaches.
    fn merged(&self, mut particle: Particle) -> Particle {
        while let Some(model) = self.all.model_of(particle.term) {
            let [inner] = self.all.models[model].particles.as_slice() else { break };
            let inner = self.all.particles[*inner];
            let gapless = match (particle.min, particle.max) {
                (1, Max::Times(1)) => true,
                (min, max) if max == Max::Times(min) => true,
                (min, _) => match inner.max {
                    Max::Unbounded => min > 0 || inner.min <= 1,
                    Max::Times(most) => {
                        let next = min.saturating_add(1).saturating_mul(inner.min);
                        next <= min.saturating_mul(most).saturating_add(1)
                    }
                },
            };
            if !gapless {
                break;
            }
            let min = particle.min.saturating_mul(inner.min);
            let max = particle.max.times(inner.max);
            particle = Particle { min, max, ..inner };
        }
        if particle.max >= Max::Times(UNREACHED) && particle.min <= 1 {
            particle.max = Max::Unbounded;
        }
        particle
    }

    /// Expands a particle to consecutive copies.
    fn written(
        &mut self,
        term: Term,
        min: u64,
        max: Max,
        copies: u64,
    ) -> Result<Fragment, TooMany> {
        let source = self.sources;
        let mut whole: Option<Fragment> = None;
        let mut previous: Vec<(u32, Vec<Op>)> = Vec::new();
        for copy in 1..=copies {
            self.sources = source;
            let inner = self.once(term)?;
            self.connect(&previous, inner.first, &[]);
            // If copies may be empty, the empty ones can be assumed to come last, so each copy only leads to the next.
            let least = if inner.nullable { 0 } else { min };
            if copy == copies && max == Max::Unbounded {
                self.connect(&inner.last, inner.first, &[]);
            }
            previous.clone_from(&inner.last);
            match &mut whole {
                None => {
                    let nullable = least == 0;
                    let last = if copy >= least { inner.last } else { Vec::new() };
                    whole = Some(Fragment { nullable, first: inner.first, last });
                }
                Some(whole) if copy >= least => whole.last.extend(inner.last),
                Some(_) => {}
            }
        }
        match whole {
            Some(whole) => Ok(whole),
            None => Ok(self.nothing(true)),
        }
    }

    /// Builds a particle whose occurrences are counted.
    fn counted(&mut self, term: Term, min: u64, max: Max) -> Result<Fragment, TooMany> {
        let inner = self.once(term)?;
        let counter = self.counters;
        self.counters += 1;
        let min = if inner.nullable { 0 } else { min };
        if min <= 1 {
            self.free.push(counter);
        }
        let again = match max {
            Max::Times(max) => Op::Again { counter, max, stop: max },
            Max::Unbounded => Op::Again { counter, max: u64::MAX, stop: min.max(1) },
        };
        self.connect(&inner.last, inner.first, &[again]);
        let entered = vec![(inner.first, vec![Op::Enter { counter }])];
        let first = self.list(List { positions: Vec::new(), lists: entered });
        let leave = |(position, mut ops): (u32, Vec<Op>)| {
            ops.push(Op::Leave { counter, min });
            (position, ops)
        };
        let last = inner.last.into_iter().map(leave).collect();
        Ok(Fragment { nullable: min == 0, first, last })
    }

    fn connect(&mut self, from: &[(u32, Vec<Op>)], to: ListId, between: &[Op]) {
        for (position, ops) in from {
            if let Some(position) = self.positions.get_mut(*position as usize) {
                let ops = ops.iter().chain(between).copied().collect();
                position.follow.push((to, ops));
            }
        }
    }

    fn once(&mut self, term: Term) -> Result<Fragment, TooMany> {
        match term {
            Term::Element(element) => self.leaf(Leaf::Element(element)),
            Term::Wildcard(wildcard) => self.leaf(Leaf::Wildcard(wildcard)),
            Term::Model(_) | Term::Group(_) => {
                let Some(model) = self.all.model_of(term) else { return Ok(self.nothing(true)) };
                let model = &self.all.models[model];
                match model.kind {
                    ModelKind::Choice => self.choice(&model.particles),
                    // An all-group inside other groups has been refused already.
                    ModelKind::Sequence | ModelKind::All => self.sequence(&model.particles),
                }
            }
        }
    }

    fn leaf(&mut self, leaf: Leaf) -> Result<Fragment, TooMany> {
        if self.positions.len() >= self.positions_max {
            return Err(TooMany);
        }
        let position = u32::try_from(self.positions.len()).map_err(|_| TooMany)?;
        let source = self.sources;
        self.sources += 1;
        self.positions.push(Position { leaf, source, follow: Vec::new(), ends: None });
        let first = self.list(List { positions: vec![position], lists: Vec::new() });
        Ok(Fragment { nullable: false, first, last: vec![(position, Vec::new())] })
    }

    fn choice(&mut self, particles: &[Id<Particle>]) -> Result<Fragment, TooMany> {
        let mut whole = Fragment { nullable: false, first: ListId(0), last: Vec::new() };
        let mut lists = Vec::with_capacity(particles.len());
        for &particle in particles {
            let inner = self.particle(particle)?;
            whole.nullable |= inner.nullable;
            lists.push((inner.first, Vec::new()));
            whole.last.extend(inner.last);
        }
        whole.first = self.list(List { positions: Vec::new(), lists });
        Ok(whole)
    }

    fn sequence(&mut self, particles: &[Id<Particle>]) -> Result<Fragment, TooMany> {
        let mut inner = Vec::with_capacity(particles.len());
        for &particle in particles {
            inner.push(self.particle(particle)?);
        }
        // Works backwards, so that each part is connected to a single list of everything that may follow it.
        let mut rest = self.nothing(true);
        for fragment in inner.into_iter().rev() {
            self.connect(&fragment.last, rest.first, &[]);
            let mut last = fragment.last;
            if !rest.nullable {
                last.clear();
            }
            last.append(&mut rest.last);
            let first = if fragment.nullable {
                let lists = vec![(fragment.first, Vec::new()), (rest.first, Vec::new())];
                self.list(List { positions: Vec::new(), lists })
            } else {
                fragment.first
            };
            rest = Fragment { nullable: fragment.nullable && rest.nullable, first, last };
        }
        Ok(rest)
    }
}
