//! Keys made by a broken library (ROCA, CVE-2017-15361): their private half can be computed from the public one.

/// The primes of the published fingerprint.
const PRIMES: &[u16] = &[
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97,
    101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
];

/// True if the modulus is a power of 65537 modulo each small prime. Only keys of that library have this property.
pub(crate) fn is_weak(modulus: &[u8]) -> bool {
    PRIMES.iter().all(|prime| {
        let prime = u32::from(*prime);
        let rest = modulus.iter().fold(0, |rest, byte| (rest * 256 + u32::from(*byte)) % prime);
        let mut power = 1 % prime;
        // The powers repeat after at most `prime` steps.
        (0..prime).any(|_| {
            let found = power == rest;
            power = power * (65_537 % prime) % prime;
            found
        })
    })
}
