// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
)

// grid is a square of points with a border line on each side. The border holds
// the fixed edge of the plate or points of a neighbour.
type grid struct {
	n          int // points on a side, without the border
	now, after []float64
}

// newGrid begins with 0 inside, surrounded by outside at global coordinates;
// row and column are those of the grid's first point.
func newGrid(n, row, column int) *grid {
	g := &grid{n: n, now: make([]float64, (n+2)*(n+2)), after: make([]float64, (n+2)*(n+2))}
	for i := range n + 2 {
		for j := range n + 2 {
			if i == 0 || j == 0 || i == n+1 || j == n+1 {
				g.now[g.at(i, j)] = outside(row+i-1, column+j-1)
			}
		}
	}
	copy(g.after, g.now)
	return g
}

// at is the index of a point; 1 to n are inside.
func (g *grid) at(i, j int) int { return i*(g.n+2) + j }

// outside is the temperature of the edge. It differs from point to point, so
// that a misplaced value shows.
func outside(i, j int) float64 { return float64(((7*i+13*j)%101 + 101) % 101) }

// diffusion coefficient x time step / grid spacing squared
const diffusion = 0.2

// step is one explicit five-point step of the heat equation. The conversions
// keep compilers from fusing a product and a sum, which would round
// differently.
func (g *grid) step() {
	width := g.n + 2
	for i := 1; i <= g.n; i++ {
		for k := g.at(i, 1); k <= g.at(i, g.n); k++ {
			c := g.now[k]
			flow := float64(g.now[k-width]+g.now[k+width]) + float64(g.now[k-1]+g.now[k+1]) - float64(4*c)
			g.after[k] = c + float64(diffusion*flow)
		}
	}
	// The border keeps its values until a neighbour writes them.
	for i := range width {
		for _, k := range [4]int{g.at(0, i), g.at(g.n+1, i), g.at(i, 0), g.at(i, g.n+1)} {
			g.after[k] = g.now[k]
		}
	}
	g.now, g.after = g.after, g.now
}

// serial computes the whole square on one grid.
func serial(n, steps int) *grid {
	g := newGrid(n, 0, 0)
	for range steps {
		g.step()
	}
	return g
}

// compare checks that a block equals its part of the whole square bit by bit.
func (g *grid) compare(block *grid, row, column int) error {
	for i := 1; i <= block.n; i++ {
		for j := 1; j <= block.n; j++ {
			got, want := block.now[block.at(i, j)], g.now[g.at(row+i, column+j)]
			if math.Float64bits(got) != math.Float64bits(want) {
				return fmt.Errorf("point %d, %d is %v, computed in one place it is %v", row+i-1, column+j-1, got, want)
			}
		}
	}
	return nil
}
