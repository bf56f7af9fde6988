//! The inner loops of the vector scan, compiled for the processor's own instruction set.

// Plain loops, because a closure would be compiled for the baseline instruction set.

/// Collects the rows that share at least `least` bits with `wanted`.
#[inline(always)]
fn reaching_of(rows: &[u64], wanted: &[u64], least: u32, out: &mut Vec<u32>) {
    // The common lengths are constants, so that the compiler unrolls the inner loop.
    match wanted.len() {
        0 => {}
        4 => reaching_in::<4>(rows, wanted, least, out),
        6 => reaching_in::<6>(rows, wanted, least, out),
        words => {
            for (place, row) in rows.chunks_exact(words).enumerate() {
                if agreement(row, wanted) >= least {
                    out.push(place as u32);
                }
            }
        }
    }
}

#[inline(always)]
fn reaching_in<const WORDS: usize>(rows: &[u64], wanted: &[u64], least: u32, out: &mut Vec<u32>) {
    let (rows, _) = rows.as_chunks::<WORDS>();
    for (place, row) in rows.iter().enumerate() {
        if agreement(row, &wanted[..WORDS]) >= least {
            out.push(place as u32);
        }
    }
}

#[inline(always)]
fn agreement(row: &[u64], wanted: &[u64]) -> u32 {
    let (mut same, mut place) = (0, 0);
    while place < row.len() {
        same += (!(row[place] ^ wanted[place])).count_ones();
        place += 1;
    }
    same
}

/// Builds a histogram of the bits shared with `wanted`, over every `every`-th row.
#[inline(always)]
fn histogram_of(rows: &[u64], wanted: &[u64], every: usize, counts: &mut [usize]) {
    let words = wanted.len().max(1);
    for row in rows.chunks_exact(words).step_by(every) {
        counts[agreement(row, wanted) as usize] += 1;
    }
}

#[inline(always)]
fn product_of(a: &[i8], b: &[i8]) -> i32 {
    let (mut sum, mut place) = (0, 0);
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    while place < length {
        sum += i32::from(a[place]) * i32::from(b[place]);
        place += 1;
    }
    sum
}

#[cfg(target_arch = "x86_64")]
mod wide {
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn reaching(rows: &[u64], wanted: &[u64], least: u32, out: &mut Vec<u32>) {
        super::reaching_of(rows, wanted, least, out);
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn histogram(rows: &[u64], wanted: &[u64], every: usize, counts: &mut [usize]) {
        super::histogram_of(rows, wanted, every, counts);
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn product(a: &[i8], b: &[i8]) -> i32 {
        super::product_of(a, b)
    }

    pub(super) fn is_here() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
    }
}

/// Collects the rows that share at least `least` bits with `wanted`.
pub(super) fn reaching(rows: &[u64], wanted: &[u64], least: u32, out: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if wide::is_here() {
        // SAFETY: `is_here` checked that the processor has the features of the function.
        #[expect(unsafe_code, reason = "calling a function with target features is unsafe")]
        return unsafe { wide::reaching(rows, wanted, least, out) };
    }
    reaching_of(rows, wanted, least, out);
}

/// Builds a histogram of the bits shared with `wanted`, over every `every`-th row.
pub(super) fn histogram(rows: &[u64], wanted: &[u64], every: usize, counts: &mut [usize]) {
    #[cfg(target_arch = "x86_64")]
    if wide::is_here() {
        // SAFETY: `is_here` checked that the processor has the features of the function.
        #[expect(unsafe_code, reason = "calling a function with target features is unsafe")]
        return unsafe { wide::histogram(rows, wanted, every, counts) };
    }
    histogram_of(rows, wanted, every, counts);
}

/// The dot product of two rows of bytes.
pub(super) fn product(a: &[i8], b: &[i8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if wide::is_here() {
        // SAFETY: `is_here` checked that the processor has the features of the function.
        #[expect(unsafe_code, reason = "calling a function with target features is unsafe")]
        return unsafe { wide::product(a, b) };
    }
    product_of(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_loops_say_what_the_plain_ones_say() {
        for words in [1, 3, 4, 6, 12] {
            let rows: Vec<u64> =
                (1..=words as u64 * 9).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let wanted = &rows[words..2 * words];
            let all: Vec<u32> =
                rows.chunks_exact(words).map(|row| agreement(row, wanted)).collect();
            assert_eq!(all[1], words as u32 * 64);
            for least in [0, all[0], all[2], words as u32 * 64] {
                let (mut plain, mut wide) = (Vec::new(), Vec::new());
                reaching_of(&rows, wanted, least, &mut plain);
                reaching(&rows, wanted, least, &mut wide);
                let expected: Vec<u32> =
                    (0..9).filter(|place| all[*place as usize] >= least).collect();
                assert_eq!((&plain, &wide), (&expected, &expected));
            }
            let (mut plain, mut wide) = (vec![0; words * 64 + 1], vec![0; words * 64 + 1]);
            histogram_of(&rows, wanted, 2, &mut plain);
            histogram(&rows, wanted, 2, &mut wide);
            let expected =
                |same: usize| all.iter().step_by(2).filter(|all| **all as usize == same).count();
            assert_eq!(plain, (0..=words * 64).map(expected).collect::<Vec<usize>>());
            assert_eq!(plain, wide);
        }
        for length in [0, 1, 31, 256, 384] {
            let a: Vec<i8> = (0..length).map(|n| (n * 37 % 255 - 127) as i8).collect();
            let b: Vec<i8> = (0..length).map(|n| (n * 91 % 255 - 127) as i8).collect();
            assert_eq!(product(&a, &b), product_of(&a, &b));
        }
    }
}
